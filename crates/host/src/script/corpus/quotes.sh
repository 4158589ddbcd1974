# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1 c1 d1
a1 "it's \"here\"" 'a "b"' \' \" $'it\'s' "${x:-'it s'}"
b1 "$(c1 "in `d1 "deep"` quotes")"
