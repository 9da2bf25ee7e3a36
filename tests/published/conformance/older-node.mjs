// Lets the suite run on Node 20, whose `fs` lacks `globSync`. The scenarios for servers do not call it.
import fs from "node:fs";
import { register } from "node:module";

if (!fs.globSync) register("./fs-hook.mjs", import.meta.url);
