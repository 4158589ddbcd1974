#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Starts redis-server by a command (or bare), and puts it under load from outside in short bursts: SET and GET, by 50
# clients at once over a socket of the file system. Prints how long a request took in seconds, the mean of both, in the
# median burst; and below what the server's own time was in all of them, user and system, by its getrusage. Every exit code
# is looked at.
#
#   sh server.sh REQUESTS PALISADED|'' [COMMAND…]
#
# With PALISADED, that runs meanwhile.
. "$(dirname "$0")/daemon.sh"
requests=$1 palisaded=$2 burst=4000
shift 2
[ -z "$palisaded" ] || begin_learning "$palisaded" "$1"
"$@" redis-server --port 0 --unixsocket ./socket --save '' --appendonly no --hz 1 >server.log 2>&1 &
server=$!
until_it redis-cli -s ./socket ping
load() {
    redis-benchmark -s ./socket -c 50 -n "$burst" -t set,get --csv >load.csv
    # "test","rps",…
    awk -F '"' '$2 == "SET" || $2 == "GET" { sum += 1 / $4; lines++ }
        END { if (lines != 2) exit 1; printf "%.9f\n", sum / lines }' load.csv
}
load >warm-up.txt
redis-cli -s ./socket info cpu >before.txt
left=$((requests / burst)) bursts=0
while [ "$left" -gt 0 ]; do
    load >>bursts.txt
    left=$((left - 1)) bursts=$((bursts + 1))
done
redis-cli -s ./socket info cpu >after.txt
redis-cli -s ./socket shutdown nosave
wait "$server"
server=''
sort -n bursts.txt | awk '{ time[NR] = $1 }
    END { if (NR < 1) exit 1; printf "%e served\n", (time[int((NR + 1) / 2)] + time[int((NR + 2) / 2)]) / 2 }'
# Twice as many requests: SET and GET.
awk -F ':' -v requests=$((2 * bursts * burst)) '
    $1 == "used_cpu_user" { user = $2 - user }
    $1 == "used_cpu_sys" { system_time = $2 - system_time }
    END { if (user + system_time <= 0) exit 1; printf "%e %e\n", user / requests, system_time / requests }' before.txt after.txt
