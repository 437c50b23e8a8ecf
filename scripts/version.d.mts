export function notes(changelog: string, tag: string): string;
export function dated(changelog: string, version: string, date: string): string;
export function problems(root: string, tag?: string): string[];
export function set(root: string, version: string, date: string): void;
