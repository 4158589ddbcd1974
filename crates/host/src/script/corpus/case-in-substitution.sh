# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1 uname
x=$(case $(uname) in Linux) a1 ;; *) b1 ;; esac)
