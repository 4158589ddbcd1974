# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1 c1 d1 env nice sudo timeout xargs
env -u X A=b a1
sudo -u root nice -n 5 b1
timeout -k 1 5s c1 | xargs -0 -n 1 d1
