# SPDX-License-Identifier: Apache-2.0 OR MIT
# Reads the package lists of $HOST by the scheme $1, with directories of its own.
set -e
mkdir -p apt/lists/partial apt/cache/archives/partial apt/etc/sources.list.d apt/etc/preferences.d apt/etc/apt.conf.d
: >apt/status
echo "deb [trusted=yes] $1://$HOST/apt ./" >apt/etc/sources.list
cat >apt/conf <<END
Dir::State::lists "$PWD/apt/lists";
Dir::State::status "$PWD/apt/status";
Dir::Cache "$PWD/apt/cache";
Dir::Etc "$PWD/apt/etc";
Dir::Etc::sourcelist "$PWD/apt/etc/sources.list";
Dir::Etc::sourceparts "$PWD/apt/etc/sources.list.d";
Acquire::https::CaInfo "$CA";
Acquire::Retries "0";
Acquire::Languages "none";
APT::Sandbox::User "";
APT::Update::Error-Mode "any";
END
APT_CONFIG=$PWD/apt/conf
export APT_CONFIG
apt-get -q update
apt-cache show tiny | grep -q '^Version: 1.0'
