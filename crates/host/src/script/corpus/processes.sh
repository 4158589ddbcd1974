# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1 c1 diff
diff <(a1) <(b1 | c1)
