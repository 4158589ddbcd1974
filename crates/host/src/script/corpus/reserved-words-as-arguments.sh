# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1 grep
a1 if then fi case { } done
grep -q for in while | b1 do
