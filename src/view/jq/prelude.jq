# Of jq's builtins, those that the library leaves out and that depend on nothing but their input.
def @csv: [.[] |
    if   type == "string" then "\"" + gsub("\""; "\"\"") + "\""
    elif type == "null" then ""
    elif type == "array" or type == "object" then error("\(type) is not valid in a csv row")
    else tostring end
  ] | join(",");
def @tsv: [.[] |
    if   type == "string" then
         gsub("\\\\"; "\\\\") | gsub("\t"; "\\t") | gsub("\n"; "\\n") | gsub("\r"; "\\r")
    elif type == "null" then ""
    elif type == "array" or type == "object" then error("\(type) is not valid in a tsv row")
    else tostring end
  ] | join("\t");
def toarray: if type == "array" then . else [.] end;
def trimstr($x): ltrimstr($x) | rtrimstr($x);
def leaf_paths: paths(scalars);
def tostream:
  path(def r: (.[]? | r), .; r) as $p | getpath($p) |
  reduce path(.[]?) as $q ([$p, .]; [$p + $q]);
def INDEX(stream; f): reduce stream as $row ({}; .[$row | f | tostring] |= $row);
def INDEX(f): INDEX(.[]; f);
def IN(s): any(s == .; .);
def IN(src; s): any(src == s; .);
