# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1
coproc a1 -x
coproc NAME { b1; }
