# SPDX-License-Identifier: Apache-2.0 OR MIT
# Description: Prints a few files
blacklist ${HOME}/.ssh
include common.inc
whitelist ${HOME}/Documents
read-only ${HOME}/Documents
private-etc none
private-bin sh,cat
private-opt none
net none
nogroups
dbus-user none
