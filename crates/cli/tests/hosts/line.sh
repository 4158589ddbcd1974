# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Runs on the host that is tested: two launches, `strict` and `best`. Every line that begins with `@` is for the test.
# A host may have no program but this shell and `mkdir`, `rm` and `rmdir`. $P is palisade, $WORK the working directory.
cd "$WORK" || exit 99
echo outside >../secret
# Each attempt to leave is one that works outside.
inside='{ read -r line <../secret; } 2>/dev/null && echo "read $line"
{ echo inside >../reached; } 2>/dev/null
mkdir .vscode 2>/dev/null
echo inside >made
if command -v linked >/dev/null && ! linked >/dev/null; then echo unlinked; fi
echo done'
tell() { while read -r line; do echo "@$1 $line"; done <"$2"; }
for mode in strict best; do
    options=
    [ $mode = strict ] || options=--best-effort
    rm -rf made .vscode ../reached
    echo "@begin $mode"
    "$P" run $options --status-fd 3 -- sh -c "$inside" 3>../status >../out 2>../err
    echo "@end $?"
    tell status ../status
    tell out ../out
    tell err ../err
    [ ! -e made ] || echo "@fact made"
    [ ! -e .vscode ] || echo "@fact named"
    [ ! -e ../reached ] || echo "@fact reached"
done
echo "@over"
