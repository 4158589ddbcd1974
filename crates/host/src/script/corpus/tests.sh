# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1 c1
if [[ $x =~ ^(a|b)[[:space:]]*$ && ( -f /etc/passwd || ! -d /usr/share ) ]]; then a1; fi
[[ -n $x ]] && b1 || c1
[[ $x < y ]]
