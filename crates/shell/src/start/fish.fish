# SPDX-License-Identifier: Apache-2.0 OR MIT
# What fish tells the proxy. Variables are global and not exported: no child sees them.
if status is-interactive; and not set -q __palisade_nonce
    set -g __palisade_nonce @NONCE@
    set -g __palisade_program @PROGRAM@
    function __palisade_escape
        string replace -a \\ \\\\ -- $argv | string replace -a \t '\\t' | string replace -a \e '\\e' | string join '\\n'
    end
    function __palisade_line
        set -l kind R
        commandline --paging-mode; and set kind M
        printf '\e]7717;%s;%s;%s;%s\a' $__palisade_nonce $kind (commandline -C) (__palisade_escape (commandline -b)) >/dev/tty
    end
    function __palisade_prompt --on-event fish_prompt
        set -l code $__palisade_status
        test -n "$code"; or set code 0
        printf '\e]133;D;%s;p=%s\a\e]7717;%s;S;fish\a\e]7717;%s;W;%s\a' $code $__palisade_nonce $__palisade_nonce $__palisade_nonce (__palisade_escape $PWD) >/dev/tty
        # What was typed before the prompt came is given back to be looked at as if it were typed now.
        set -l keys
        test -x $__palisade_program; and set keys ($__palisade_program shell ahead 2>/dev/null)
        test -z "$keys"; or printf '\e]7717;%s;T;%s\a' $__palisade_nonce $keys >/dev/tty
        printf '\e]133;A;p=%s\a\e]133;B;p=%s\a' $__palisade_nonce $__palisade_nonce >/dev/tty
    end
    # After Control-C it is the same prompt, and no event of one.
    function __palisade_cancel --on-event fish_cancel
        printf '\e]133;A;p=%s\a\e]133;B;p=%s\a' $__palisade_nonce $__palisade_nonce >/dev/tty
    end
    function __palisade_preexec --on-event fish_preexec
        printf '\e]7717;%s;X;%s\a\e]133;C;p=%s\a' $__palisade_nonce (__palisade_escape $argv[1]) $__palisade_nonce >/dev/tty
    end
    function __palisade_postexec --on-event fish_postexec
        set -g __palisade_status $status
    end
    bind \e\[7717~ __palisade_line
    bind -M insert \e\[7717~ __palisade_line 2>/dev/null
end
