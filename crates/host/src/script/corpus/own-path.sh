# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: /opt/corpus/script.bin
exec "$0.bin" "$@"
