# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1 c1
a1 # it's a comment with (
x=$( # another one's
  b1
)
c1 a#b 'c # d'
