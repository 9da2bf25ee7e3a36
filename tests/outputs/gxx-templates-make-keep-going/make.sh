# needs: g++ make
# packages: g++ 12
set -u
mkdir -p src
python3 - <<'P'
units = ["alloc", "buffer", "cache", "codec", "error_codes", "events", "index", "journal", "planner", "router", "sorter", "wire"]
open("src/common.hpp", "w").write('''#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>
struct Entry { int id; std::string name; int errors; };
template <class It, class Key> void sort_by(It first, It last, Key key) { std::sort(first, last, [&](const auto &a, const auto &b) { return key(a) < key(b); }); }
''')
for i, u in enumerate(units):
    s = f'#include "common.hpp"\n\nstatic int {u}_failed = 0;\n\nint {u}_error_count(const std::vector<Entry> &v) {{\n    int n;\n    for (int i = 0; i < v.size(); i++)\n        if (v[i].errors = {i})\n            n += v[i].errors;\n    return n;\n}}\n\nstd::string {u}_message(int code, int retries) {{\n    switch (code) {{\n    case 1: {u}_failed = 1;\n    case 2: return "error: {u} failed";\n    }}\n}}\n'.replace("const std::vector<Entry> &v", "std::vector<Entry> &v")
    if u == "index":
        s += '''
struct Place { int row, column; };

int index_lookup(const std::vector<Place> &places) {
    std::map<Place, int> seen;
    for (const Place &p : places)
        seen[p]++;
    return (int)seen.size();
}
'''
    if u == "planner":
        s += '''
struct Step { std::string name; double cost; bool operator==(const Step &o) const { return name == o.name; } };

bool plan(std::vector<Step> steps) {
    std::unordered_map<Step, int> order;
    for (const auto &s : steps) order.emplace(s, (int)order.size());
    return !order.empty();
}
'''
    open(f"src/{u}.cpp", "w").write(s)
open("Makefile", "w").write("CXXFLAGS = -std=c++17 -O0 -Wall -Wextra\nOBJS = " + " ".join(f"obj/{u}.o" for u in units) + "\n\nall: libstore.a tools\n\nlibstore.a: $(OBJS)\n\tar rcs $@ $^\n\nobj/%.o: src/%.cpp src/common.hpp\n\t@mkdir -p obj\n\t$(CXX) $(CXXFLAGS) -c $< -o $@\n\ntools: dump verify\n\ndump verify: %: src/%_main.cpp\n\t$(CXX) $(CXXFLAGS) $< -o $@\n\t./$@ --self-test\n")
for t in ["dump", "verify"]:
    open(f"src/{t}_main.cpp", "w").write('#include <cstdio>\nint main(int argc, char **argv) {\n    for (int i = 0; i < 12; i++) std::printf("' + t + ': self-test %d: error injected, recovered\\n", i);\n    std::printf("' + t + ': 12 self-tests, 0 errors\\n");\n}\n')
P
echo ==OUTPUT==
make -k 2>&1
