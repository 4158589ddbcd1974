#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A command while system calls are learned by the kernel, for palisaded.
#
#   sh learn.sh PALISADED CALL PALISADE run … -- COMMAND…      # its own, and CALL must be among what was learned
#   sh learn.sh PALISADED '' PALISADE COMMAND…                 # another's, who does nothing meanwhile
. "$(dirname "$0")/daemon.sh"
palisaded=$1 call=$2 palisade=$3
shift 2
begin_learning "$palisaded" "$palisade"
if [ -n "$call" ]; then
    "$@" >said.txt
    name=$("$palisade" syscalls list | awk '{ print $1; exit }')
    "$palisade" syscalls show "$name" --json >learned.log
    grep -q "\"$call\"" learned.log
else
    shift
    "$palisade" run --quiet --syscalls learn -- sh -c 'echo begun; exec sleep 600' >other.log &
    server=$!
    until_it grep -q begun other.log
    "$@" >said.txt
fi
cat said.txt
