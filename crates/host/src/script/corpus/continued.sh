# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1
a1 one \
  two && \
b1
