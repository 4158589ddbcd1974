# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1 bash c1 d1
eval 'a1 | b1'
trap 'c1' EXIT
bash -c "d1"
