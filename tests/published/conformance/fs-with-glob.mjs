export * from "node:fs";

export function globSync() {
    throw new Error("this Node has no globSync");
}
