# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1 c1
time a1
time -p b1
! c1
