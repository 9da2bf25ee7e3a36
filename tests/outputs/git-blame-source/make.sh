# needs: git
# packages: git 2.47
set -u
export GIT_CONFIG_GLOBAL=$PWD/.gitconfig GIT_CONFIG_NOSYSTEM=1
git config --global user.name 'Sam Example'; git config --global user.email sam@example.com; git config --global init.defaultBranch main
git init -q repo && cd repo
python3 - <<'P'
import os, subprocess, random
random.seed(3)
who = [("Sam Example", "sam"), ("Kim Sample", "kim"), ("Ana Muster", "ana")]
words = ["parse", "open", "lookup", "retry", "fetch", "decode", "connect", "resolve"]
blocks = []
for i, w in enumerate(words * 4):
    blocks.append([f"func {w}{i}(in string) (string, error) {{", "\tif in == \"\" {", f"\t\treturn \"\", errors.New(\"{w}: empty input\")", "\t}", f"\tlog.Printf(\"{w} %s\", in)", "\treturn in, nil", "}", ""])
def write(): open("client.go", "w").write("package client\n\nimport (\n\t\"errors\"\n\t\"log\"\n)\n\n" + "\n".join("\n".join(b) for b in blocks))
for n in range(24):
    if n:
        for _ in range(5):
            b = random.choice(blocks); i = random.randrange(1, len(b) - 2)
            b[i] = random.choice([f"\tlog.Fatal(\"fatal: {n} failed\")", f"\tpanic(\"error {n}: unreachable\")", f"\tif err != nil {{ return \"\", fmt.Errorf(\"ERROR {n}: %w\", err) }}", f"\t// FAILED: step {n}: connection refused", f"\tcount += {n}"])
    write()
    name, mail = who[n % 3]
    e = dict(os.environ, GIT_AUTHOR_NAME=name, GIT_AUTHOR_EMAIL=mail + "@example.com", GIT_AUTHOR_DATE=f"2024-03-{n + 1:02}T10:00:00Z", GIT_COMMITTER_DATE=f"2024-03-{n + 1:02}T10:00:00Z")
    subprocess.run(["git", "add", "-A"], env=e); subprocess.run(["git", "commit", "-qm", f"Change {n}"], env=e)
P
echo ==OUTPUT==
git blame client.go 2>&1
