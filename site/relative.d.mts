/** What VitePress takes for the address of the site's folder. */
export declare const BASE: string;
/** `file`: its place in the site, as `api/nn.html`. */
export declare function madeRelative(file: string, text: string): string;
