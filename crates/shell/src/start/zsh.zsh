# SPDX-License-Identifier: Apache-2.0 OR MIT
# What zsh tells the proxy. The shell's own parameters and functions only: no child sees them.
if [[ -o interactive && -z ${__palisade_nonce-} ]]; then
typeset -g __palisade_nonce=@NONCE@ __palisade_text=@DESCRIPTOR@
exec {__palisade_text}<&-
__palisade_escape() {
    emulate -L zsh
    __palisade_text=${1//\\/\\\\}
    __palisade_text=${__palisade_text//$'\n'/\\n}
    __palisade_text=${__palisade_text//$'\t'/\\t}
    __palisade_text=${__palisade_text//$'\e'/\\e}
}
__palisade_line() {
    emulate -L zsh
    if [[ $CONTEXT == start && $KEYMAP != isearch ]] && ((${#BUFFER} < 2000)); then
        __palisade_escape "$BUFFER"
        print -rn -- $'\e]7717;'"$__palisade_nonce;${2:-L};$CURSOR;$__palisade_text"$'\a' >$TTY
    else
        print -rn -- $'\e]7717;'"$__palisade_nonce;${3:-U}"$'\a' >$TTY
    fi
}
__palisade_reply() { __palisade_line '' R V }
__palisade_init() {
    print -rn -- $'\e]133;B;p='"$__palisade_nonce"$'\a' >$TTY
    __palisade_line
}
__palisade_finish() { print -rn -- $'\e]7717;'"$__palisade_nonce;F"$'\a' >$TTY }
# What was typed before the prompt came, with an Enter in it, is given back to be looked at as if it were typed now.
__palisade_ahead() {
    emulate -L zsh
    local key keys
    [[ -t 0 ]] || return
    while ((${#keys} < 4096)) && read -t 0 -rsk 1 key; do keys+=$key; done
    [[ -n $keys ]] || return
    __palisade_escape "$keys"
    __palisade_text=${__palisade_text//$'\a'/\\a}
    __palisade_text=${__palisade_text//$'\x18'/\\x}
    __palisade_text=${__palisade_text//$'\x1a'/\\z}
    print -rn -- $'\e]7717;'"$__palisade_nonce;T;$__palisade_text"$'\a' >$TTY
}
__palisade_precmd() {
    local code=$?
    emulate -L zsh
    __palisade_escape "$PWD"
    print -rn -- $'\e]133;D;'"$code;p=$__palisade_nonce"$'\a\e]7717;'"$__palisade_nonce;S;zsh"$'\a\e]7717;'"$__palisade_nonce;W;$__palisade_text"$'\a\e]133;A;p='"$__palisade_nonce"$'\a' >$TTY
    __palisade_ahead
}
__palisade_preexec() {
    emulate -L zsh
    __palisade_escape "$1"
    print -rn -- $'\e]7717;'"$__palisade_nonce;X;$__palisade_text"$'\a\e]133;C;p='"$__palisade_nonce"$'\a' >$TTY
}
autoload -Uz add-zle-hook-widget
zle -N __palisade_init
zle -N __palisade_line
zle -N __palisade_reply
zle -N __palisade_finish
add-zle-hook-widget line-init __palisade_init
add-zle-hook-widget line-pre-redraw __palisade_line
add-zle-hook-widget line-finish __palisade_finish
for __palisade_text in emacs viins vicmd; do
    bindkey -M $__palisade_text '\e[7717~' __palisade_reply
done
# In a menu nothing can be answered, and the question must not end it.
zmodload -i zsh/complist 2>/dev/null && bindkey -M menuselect '\e[7717~' redisplay
typeset -ga precmd_functions preexec_functions
precmd_functions=(__palisade_precmd $precmd_functions)
preexec_functions=($preexec_functions __palisade_preexec)
fi
