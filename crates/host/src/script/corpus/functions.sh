# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1 c1 d1
one() { a1; }
function two { b1; }
function three () (
  c1
)
four ()
{
  d1
}
one; two; three; four
