# Filters of jq 1.8 that the library leaves out, or that it has otherwise. Most are as jq defines them.

# Regular expressions
def match(re; flags): _matches(re; flags)[];
def _pair(f; g):
  if type == "string" then f elif type == "array" and length > 1 then g
  elif type == "array" and length > 0 then .[0] | f
  else error("\(type) not a string or array") end;
def match($val): . as $in | $val | _pair(. as $re | $in | match($re; null); . as [$re, $flags] | $in | match($re; $flags));
def test(re; flags): _matches(re; flags) | length > 0;
def test($val): . as $in | $val | _pair(. as $re | $in | test($re; null); . as [$re, $flags] | $in | test($re; $flags));
def _captures: reduce (.captures[] | select(.name != null) | {(.name): .string}) as $pair ({}; . + $pair);
def capture(re; flags): match(re; flags) | _captures;
def capture($val): match($val) | _captures;
def scan($re; $flags):
  match($re; "g" + $flags) | if .captures | length > 0 then [.captures[].string] else .string end;
def scan($re): scan($re; null);
def splits($re; $flags): _pieces($re; $flags + "g")[][0];
def splits($re): splits($re; null);
def split($re; flags): [splits($re; flags)];
def sub($re; f; $flags): . as $in | _pieces($re; $flags) | .[-1][0] as $rest | (
    reduce .[:-1][] as [$gap, $match] ([];
      [$match | _captures | f] as $all |
      reduce range(0; $all | length) as $i (.; .[$i] += $gap + $all[$i])) |
    .[] + $rest) // $in;
def sub($re; f): sub($re; f; "");
def gsub($re; f; flags): sub($re; f; flags + "g");
def gsub($re; f): sub($re; f; "g");

# Text
def tostring: if type == "string" then . else tojson end;
def @text: tostring;
def @json: tojson;
def @html: tostring | escape_html;
def @uri: tostring | encode_uri;
def @base64: tostring | encode_base64;
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
def @sh: [if type == "array" then .[] end |
    if   type == "string" then "'\(escape_sh)'"
    elif type == "array" or type == "object" then error("\(type) can not be escaped for shell")
    else tostring end
  ] | join(" ");
def _joined: if type == "boolean" or type == "number" then tostring else . // "" end;
def join($x): if . == [] then "" else
    [.[]] | reduce (.[1:][] | $x, _joined) as $s ("" + (.[0] | _joined); . + $s)
  end;
def trimstr($x): ltrimstr($x) | rtrimstr($x);

# Paths
def _assign(f; $value): _modify(f; $value);
def setpath($path; $value): _setpath($path; $value);
def delpaths($paths): _delpaths($paths);
def del(f): delpaths([path(f)]);
def map_values(f): .[] |= f;
def pick(f): . as $in | reduce path(f) as $p (null; setpath($p; $in | getpath($p)));
def walk(f):
  def w: if type == "object" then map_values(w) elif type == "array" then map(w) else . end | f;
  w;
def paths: path(..) | select(length > 0);
def paths(f): path(.. | select(f)) | select(length > 0);
def leaf_paths: paths(scalars);
def tostream:
  path(def r: (.[]? | r), .; r) as $p | getpath($p) |
  reduce path(.[]?) as $q ([$p, .]; [$p + $q]);
def fromstream(f): {x: null, e: false} as $init |
  foreach f as $i ($init;
    if .e then $init end |
    if $i | length == 2
    then setpath(["e"]; $i[0] | length == 0) | setpath(["x"] + $i[0]; $i[1])
    else setpath(["e"]; $i[0] | length == 1) end;
    if .e then .x else empty end);
def truncate_stream(f):
  . as $n | null | f | . as $in |
  if (.[0] | length) > $n then setpath([0]; $in[0][$n:]) else empty end;

# Objects and arrays
def to_entries: [keys_unsorted[] as $k | {key: $k, value: .[$k]}];
def with_entries(f): to_entries | map(f) | from_entries;
def toarray: if type == "array" then . else [.] end;
def _flatten($x): [.[] | if type == "array" and $x != 0 then _flatten($x - 1)[] else . end];
def flatten($x): if $x < 0 then error("flatten depth must not be negative") else _flatten($x) end;
def flatten: _flatten(-1);
def combinations:
  if length == 0 then [] else .[0][] as $x | (.[1:] | combinations) as $y | [$x] + $y end;
def combinations(n): . as $dot | [range(n) | $dot] | combinations;
def transpose: [range(0; map(length) | max // 0) as $i | [.[][$i]]];
def INDEX(stream; f): reduce stream as $row ({}; .[$row | f | tostring] |= $row);
def INDEX(f): INDEX(.[]; f);
def IN(s): any(s == .; .);
def IN(src; s): any(src == s; .);
def JOIN($idx; f): [.[] | [., $idx[f]]];
def JOIN($idx; stream; f): stream | [., $idx[f]];
def JOIN($idx; stream; f; g): stream | [., $idx[f]] | g;

# Streams
def _limit($n; f): limit($n; f);
def limit($n; f): if $n < 0 then error("limit doesn't support negative count") else _limit($n; f) end;
def _skip($n; f): skip($n; f);
def skip($n; f): if $n < 0 then error("skip doesn't support negative count") else _skip($n; f) end;
def nth($n): .[$n];
def nth($n; f):
  if $n < 0 then error("nth doesn't support negative indices") else first(skip($n; f)) end;
