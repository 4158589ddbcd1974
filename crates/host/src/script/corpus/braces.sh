# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1
for x in {1..3} {a,b}; { a1; }
echo ${x}{y}; { b1; }
