# SPDX-License-Identifier: Apache-2.0 OR MIT
import concurrent.futures, os, sys

def one(number):
    name, moved = f"d{number % 16}/{number}", f"d{number % 7}/m{number}"
    with open(name, "x") as file: file.write(str(number))
    os.chmod(name, 0o640)
    os.rename(name, moved)
    with open(moved) as file: assert int(file.read()) == number
    if number % 2: os.unlink(moved)

for number in range(16): os.mkdir(f"d{number}")
with concurrent.futures.ThreadPoolExecutor(16) as pool: list(pool.map(one, range(int(sys.argv[1]))))
