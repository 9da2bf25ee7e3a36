# needs: git
# packages: git 2.47
set -u
export GIT_CONFIG_GLOBAL=$PWD/.gitconfig GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE='2024-05-02T08:00:00Z' GIT_COMMITTER_DATE='2024-05-02T08:00:00Z' GIT_EDITOR=true
git config --global user.name 'Sam Example'; git config --global user.email sam@example.com; git config --global init.defaultBranch main
git init -q repo && cd repo
python3 - <<'P'
import os, subprocess
def git(*a): subprocess.run(["git", *a], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
os.makedirs("src"); os.makedirs("docs")
def w(f, s): open(f, "w").write(s)
base = "".join(f"def step_{i}(x):\n    return x + {i}\n\n" for i in range(40))
w("src/pipeline.py", base); w("docs/errors.md", "# Errors\n\nE1 input missing\nE2 conflict between users\n")
for i in range(30): w(f"src/stage_{i:02}.py", f"STAGE = {i}\nERROR = 'stage {i} failed'\n")
git("add", "-A"); git("commit", "-qm", "Import the pipeline")
git("checkout", "-qb", "feature/limits")
for i in range(30):
    w(f"src/stage_{i:02}.py", f"STAGE = {i}\nLIMIT = {i * 10}\nERROR = 'stage {i} failed: over limit'\n")
    m = f"Add a limit to stage {i:02}"
    if i == 17:
        w("src/pipeline.py", base.replace("return x + 20\n", "return min(x + 20, LIMIT)\n")); m = "Cap step_20 at the limit"
    if i == 9: m = "Fix error text after merge conflict in stage 09"
    git("add", "-A"); git("commit", "-qm", m)
git("checkout", "-q", "main")
w("src/pipeline.py", base.replace("return x + 20\n", "return clamp(x + 20)\n").replace("return x + 3\n", "return x + 3.0\n")); w("docs/errors.md", "# Errors\n\nE1 input missing\nE2 conflict between users\nE3 over limit\n")
git("commit", "-qam", "Clamp step_20")
for i in range(12): git("commit", "-q", "--allow-empty", "-m", f"Release notes {i}")
git("checkout", "-q", "feature/limits")
P
echo ==OUTPUT==
set -x
git log --oneline main..feature/limits
git rebase --verbose main
status=$?
git status
git diff
git log --oneline --graph -25
git ls-files -s
exit $status
