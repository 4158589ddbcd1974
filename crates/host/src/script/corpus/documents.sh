# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1 c1 cat sed
cat <<E1 <<-'E2' | sed 's/a
b/c/'
it's $(a1) and `b1`
E1
	$(never)
	E2
x=$(cat <<E3
don't (
E3
)
c1
