# SPDX-License-Identifier: Apache-2.0 OR MIT
# What the attacks on protected names find, and what the host sees of them afterwards. Run by the
# harness in the workspace, as the host (`python3 -IS`: it needs nothing but the interpreter):
#
#   ground.py repository LOG      a repository with every protected name in it, and remembers it
#   ground.py remember LOG        remembers the protected names as they are
#   ground.py changed LOG         yes (0) if one of them isn't what it was; says which
#   ground.py each LOG NAME [OP…] a place of its own for each operation on NAME
#   ground.py taken all|any LOG   whether all, or any, of these operations had their effect
#
# It has its own idea of what is protected, on purpose: plain, slow, and not Palisade's list.
import marshal, os, stat, sys  # few: this is started some thousand times

# Protected wherever they are, with all beneath.
ALONE = {
    '.gitmodules', '.gitconfig', '.bashrc', '.zshrc', '.envrc', '.mcp.json', '.vscode', '.idea', '.claude',
    '.codex', '.cursor', '.ripgreprc', '.npmrc', '.pre-commit-config.yaml', '.husky', '.palisade.toml'}
# Files of the ground, besides what is in .git: one for each name.
FILES = [
    '.git/hooks/pre-commit', '.git/config', '.git/info/attributes', '.gitmodules', '.gitconfig', '.bashrc',
    '.zshrc', '.envrc', '.mcp.json', '.vscode/settings.json', '.vscode/tasks.json', '.idea/workspace.xml',
    '.claude/settings.json', '.codex/config.toml', '.cursor/mcp.json', '.ripgreprc', '.npmrc',
    '.cargo/config.toml', '.pre-commit-config.yaml', '.husky/pre-commit', '.palisade.toml']
CONFIG = '[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n'
PLACES = ['ops', 'nested/ops']
# What names.py tries on each name.
OPERATIONS = '''
    had-overwrite had-append had-replace had-exchange had-symlink-over had-link-out had-truncate had-unlink
    had-move-away had-move-top-away had-chmod add-create add-move-in new-create new-exclusive new-move-in
    new-link-in new-symlink new-directory-in new-mkdir new-fifo'''.split()
# A configuration without contents, or none, harms nobody: git itself writes it anew.
HARMLESS_TO_CONFIG = {'had-truncate', 'had-unlink', 'had-move-away', 'had-chmod'}


def is_protected(path):
    parts = path.lower().split('/')
    for at, part in enumerate(parts):
        rest = parts[at + 1:]
        if part in ALONE or part == '.cargo' and rest[:1] in (['config'], ['config.toml']):
            return True
        if part == '.git' and is_protected_in_git(rest):
            return True
    return False


def is_protected_in_git(rest):
    if rest[:1] and rest[0] in ('hooks', 'config', 'config.worktree', 'commondir'):
        return True
    if rest[:2] == ['info', 'attributes']:
        return True
    if rest[:1] == ['worktrees']:
        return rest[2:3] in (['config.worktree'], ['commondir'], ['gitdir'])
    return rest[:1] == ['modules'] and any(part in ('hooks', 'config', 'attributes') for part in rest[2:])


def write(path, text='old\n'):
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as file:
        file.write(text)
    os.chmod(path, 0o644)


def repository(top='.'):
    for directory in ('objects', 'refs/heads', 'hooks', 'info'):
        os.makedirs(f'{top}/.git/{directory}', exist_ok=True)
    write(f'{top}/.git/HEAD', 'ref: refs/heads/main\n')
    write(f'{top}/.git/config', CONFIG)


def look(path):
    """What the host sees of one name; times are left out."""
    seen = os.lstat(path)
    what = [stat.S_IFMT(seen.st_mode), stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid, seen.st_ino]
    if stat.S_ISREG(seen.st_mode):
        with open(path, 'rb') as file:
            what.append(file.read())
    if stat.S_ISLNK(seen.st_mode):
        what.append(os.readlink(path))
    if not stat.S_ISLNK(seen.st_mode):
        what += [[name, os.getxattr(path, name)] for name in sorted(os.listxattr(path))]
    return what


def is_template(path):
    """What git makes in every new repository and runs nothing of."""
    if os.path.basename(path).lower() == 'hooks' and os.path.isdir(path) and not os.path.islink(path):
        return all(name.endswith('.sample') for name in os.listdir(path))
    return path.endswith('.sample') and os.path.isfile(path) and not os.path.islink(path)


def snapshot(top='.'):
    """The protected names below a directory, and what leads to them in place of a .git directory."""
    seen = {}
    for directory, names, files in os.walk(top):
        for name in names + files:
            path = os.path.join(directory, name)
            inner = os.path.relpath(path, top)
            odd_git = name.lower() == '.git' and (os.path.islink(path) or not os.path.isdir(path))
            if (is_protected(inner) and not is_template(path)) or odd_git:
                seen[inner] = look(path)
    return seen


def differences(before, after):
    return [
        f'{path}: {"gone" if path not in after else "new" if path not in before else "changed"}'
        for path in sorted({*before, *after}) if before.get(path) != after.get(path)]


def save(log, value):
    with open(log + '/before', 'wb') as file:
        marshal.dump(value, file)


def load(log):
    with open(log + '/before', 'rb') as file:
        return marshal.load(file)


def each(log, name, operations):
    """Operations `had-…` find the name there, `add-…` only the directory that it belongs to, and `new-…`
    nothing; in the workspace, and in a repository inside it."""
    repository('nested')
    if not operations:
        spared = HARMLESS_TO_CONFIG if name == '.git/config' else set()
        operations = [operation for operation in OPERATIONS if operation not in spared]
    spots = {}
    for place in PLACES:
        for operation in operations:
            spot = f'{place}/{operation}'
            os.makedirs(spot)
            if not operation.startswith('new-'):
                if name.startswith('.git/'):
                    repository(spot)
                write(f'{spot}/{name}', CONFIG if name == '.git/config' else 'old\n')
                if operation.startswith('add-'):
                    os.unlink(f'{spot}/{name}')
            spots[spot] = snapshot(spot)
    save(log, spots)


def taken(log, quantity):
    spots = load(log)
    hit = {spot: bool(differences(before, snapshot(spot))) for spot, before in spots.items()}
    if quantity == 'any':
        print(*sorted(spot for spot, is_hit in hit.items() if is_hit))
        return any(hit.values())
    missed = sorted(spot for spot, is_hit in hit.items() if not is_hit)
    print(len(missed), 'missed:', *missed[:4])
    return not missed


def main(verb, *arguments):
    if verb == 'repository':
        for name in FILES:
            write(name)
        repository()
        os.makedirs('sub/below')
        save(arguments[0], snapshot())
    elif verb == 'remember':
        save(arguments[0], snapshot())
    elif verb == 'changed':
        found = differences(load(arguments[0]), snapshot())
        print(*found[:12], sep=', ')
        return not found
    elif verb == 'each':
        each(arguments[0], arguments[1], arguments[2:])
    elif verb == 'taken':
        return not taken(arguments[1], arguments[0])
    else:
        raise SystemExit(f'no such verb: {verb}')
    return 0


sys.exit(main(*sys.argv[1:]))
