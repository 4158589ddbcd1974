# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1 c1
a1 >/dev/null 2>&1 </etc/passwd >>"/var/log/x" 3<>/dev/tty {fd}>/dev/null
b1 <<<"$x" &>/dev/null
>/tmp/empty
exec 3>&-
c1 >&2
