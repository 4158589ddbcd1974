# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1
list=(one "two three" /usr/share/doc [5]=$(a1) # a comment
  four)
list+=(five)
declare -a more=($(b1))
echo "${list[@]}" "${#list[*]}" "${more[0]}"
list[1 + 1]=x
