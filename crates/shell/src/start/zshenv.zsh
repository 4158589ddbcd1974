# SPDX-License-Identifier: Apache-2.0 OR MIT
# Written by `palisade shell`, and again when it isn't as it should be. It is read instead of the user's .zshenv, reads
# that, and has the hooks installed before the first prompt, when the user's other files have been read.
if [[ -n ${PALISADE_ZDOTDIR+x} ]]; then
    export ZDOTDIR=$PALISADE_ZDOTDIR
    unset PALISADE_ZDOTDIR
else
    unset ZDOTDIR
fi
[[ ! -r ${ZDOTDIR:-$HOME}/.zshenv ]] || source ${ZDOTDIR:-$HOME}/.zshenv
if [[ -o interactive ]]; then
    __palisade_first() {
        precmd_functions=(${precmd_functions:#__palisade_first})
        unfunction __palisade_first
        eval "$(@ASK@)"
        (( ! ${+functions[__palisade_precmd]} )) || __palisade_precmd
    }
    typeset -ga precmd_functions
    precmd_functions+=(__palisade_first)
fi
