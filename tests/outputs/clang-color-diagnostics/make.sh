# needs: clang make
# packages: clang 14
set -u
mkdir -p src
python3 - <<'P'
us = ["brush", "canvas", "color", "error_dialog", "filter", "layer_list", "palette", "stroke"]
for u in us:
    s = f'#include <memory>\n#include <string>\n#include <vector>\n\nstruct Layer {{ std::string name; int failed; virtual void draw(); }};\n\nclass {u.title().replace("_", "")} : public Layer {{\npublic:\n    void draw();\n    int error(int code) {{\n        int unused = 3;\n        unsigned n = layers.size();\n        for (int i = 0; i < n; i++)\n            if (layers[i]->failed = code)\n                return i;\n    }}\nprivate:\n    int never_used;\n    std::vector<std::unique_ptr<Layer>> layers;\n}};\n'
    if u == "filter": s += '\nstd::vector<std::unique_ptr<Layer>> duplicate(const std::vector<std::unique_ptr<Layer>> &v) {\n    std::vector<std::unique_ptr<Layer>> out;\n    for (auto l : v)\n        out.push_back(std::move(l));\n    return out;\n}\n'
    if u == "layer_list": s += '\nint count_failed(const std::vector<Layer> &v) {\n    int n = 0;\n    for (const auto &l : v) n += l.failures;\n    return n;\n}\n'
    open(f"src/{u}.cpp", "w").write(s)
open("Makefile", "w").write("all: " + " ".join(f"{u}.o" for u in us) + "\n%.o: src/%.cpp\n\tclang++ -std=c++17 -Wall -Wextra -Woverloaded-virtual -Wunused-private-field -fcolor-diagnostics -c $< -o $@\n")
P
echo ==OUTPUT==
make -k 2>&1
