# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1 c1 d1 e1 f1 g1
( a1; b1 ) | { c1 && d1; } > /tmp/x 2>&1 &
if ! e1; then :; elif f1; then :; else g1; fi
