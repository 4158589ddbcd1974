# SPDX-License-Identifier: Apache-2.0 OR MIT
# What bash tells the proxy. The shell's own variables and functions only: no child sees them.
if [[ $- == *i* && -z ${__palisade_nonce-} ]]; then
__palisade_nonce=@NONCE@
exec @DESCRIPTOR@<&-
__palisade_escape() {
    __palisade_text=${1//\\/\\\\}
    __palisade_text=${__palisade_text//$'\n'/\\n}
    __palisade_text=${__palisade_text//$'\t'/\\t}
    __palisade_text=${__palisade_text//$'\e'/\\e}
}
__palisade_line() {
    __palisade_escape "$READLINE_LINE"
    printf '\e]7717;%s;R;%s;%s\a' "$__palisade_nonce" "$READLINE_POINT" "$__palisade_text" >/dev/tty
}
# What was typed before the prompt came, with an Enter in it, is given back to be looked at as if it were typed now.
__palisade_ahead() {
    [[ -t 0 ]] || return
    while read -t 0; do
        IFS= read -rsd '' -n 4096 -t 0.01 __palisade_text
        [[ -n $__palisade_text ]] || return
        __palisade_escape "$__palisade_text"
        __palisade_text=${__palisade_text//$'\a'/\\a}
        __palisade_text=${__palisade_text//$'\x18'/\\x}
        __palisade_text=${__palisade_text//$'\x1a'/\\z}
        printf '\e]7717;%s;T;%s\a' "$__palisade_nonce" "$__palisade_text"
    done
}
__palisade_before() {
    local code=$?
    printf '\e]133;D;%s;p=%s\a' "$code" "$__palisade_nonce"
    return $code
}
__palisade_after() {
    local code=$? keys=bash
    [[ -o vi ]] && keys=bash-vi
    __palisade_escape "$PWD"
    printf '\e]7717;%s;S;%s\a\e]7717;%s;W;%s\a' "$__palisade_nonce" "$keys" "$__palisade_nonce" "$__palisade_text"
    if [[ $PS1 != *'133;B;p=${__palisade_nonce}'* ]]; then
        PS1='\[\e]133;A;p=${__palisade_nonce}\a\]'"$PS1"'\[\e]133;B;p=${__palisade_nonce}\a\]'
    fi
    if [[ ${PS0-} != *'133;C;p=${__palisade_nonce}'* ]]; then
        PS0=${PS0-}'\e]133;C;p=${__palisade_nonce}\a'
    fi
    __palisade_ahead
    return $code
}
if ((BASH_VERSINFO[0] > 5 || (BASH_VERSINFO[0] == 5 && BASH_VERSINFO[1] >= 1))); then
    PROMPT_COMMAND=(__palisade_before "${PROMPT_COMMAND[@]}" __palisade_after)
else
    PROMPT_COMMAND="__palisade_before${PROMPT_COMMAND:+; $PROMPT_COMMAND}; __palisade_after"
fi
for __palisade_text in emacs vi-insert vi-command; do
    bind -m "$__palisade_text" -x '"\e[7717~": __palisade_line'
done
fi
