# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1 c1 d1 e1
a1 |& b1 |
  c1 &&
  d1 ||

  e1
