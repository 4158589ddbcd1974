# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1 c1
x=$((1 << 2))
((x > 1)) && a1
y=$(( (x + 1) * 2 ))
z=$((b1); c1)
