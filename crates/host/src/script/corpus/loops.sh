# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1 c1 d1 e1 seq
for i in $(seq 3); do a1 "$i"; done
for ((i = 0; i < 3; i++)); do b1; done
for i; do c1; done
for i in x y
do
  d1
done < /etc/fstab
until e1; do break; done
