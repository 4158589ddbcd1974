# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: /usr/share/tool/run gawk mawk
DIR=/usr/share
PROGRAM=$DIR/tool/run
"$PROGRAM" -x
for awk in mawk gawk; do $awk 1; done
. "$DIR/lib.sh"
