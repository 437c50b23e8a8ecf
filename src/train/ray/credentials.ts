// Detects files that hold secrets, by name and by content. They are not uploaded unless git tracks them or the user names each of
// them.

/** Folders whose files are secrets. */
const FOLDERS = [
  '.ssh',
  '.aws',
  '.gnupg',
  '.kube',
  '.azure',
  '.oci',
  '.gcloud',
  '.huggingface',
  '.kaggle',
  '.password-store',
  '.secrets',
  '.runpod',
  '.lambda_cloud',
  '.snowflake',
  '.dbt',
  '.terraform.d',
  'keyrings',
  'legacy_credentials',
];

/** Names of files, in lower case. */
const NAMES = [
  /^\.env(?!.*\.(example|sample|template|dist)$)/,
  /\.env$/,
  /^[._]netrc$/,
  /^\.(npmrc|pnpmrc|yarnrc|yarnrc\.yml|pypirc|pgpass|my\.cnf|mylogin\.cnf|s3cfg|boto|htpasswd|dockercfg|dockerconfigjson)$/,
  /^\.(vault-token|terraformrc|databrickscfg|modal\.toml|authinfo|authinfo\.gpg|git-credentials|secrets?|token)$/,
  /^\.[a-z_]*history$/,
  /^id_(rsa|dsa|ecdsa|ed25519|xmss)/,
  /\.(pem|key|p8|p12|pfx|jks|keystore|ppk|kdbx|ovpn|tfstate|tfvars|token|secrets?)$/,
  /\.tf(vars|state)\.json$/,
  /^[._]?(\w+[-_.])*(token|api[-_]?keys?|passw(or)?ds?|vault[-_]pass(word)?)(\.txt)?$/, // not tokens.txt: a vocabulary
  /^(credentials?|secrets?|stored_tokens|deploy_key)$/,
  /^(.*[-_.])?kubeconfig(\.ya?ml)?$/,
  /^(netrc|pip\.conf|rclone\.conf|\.?clearml\.conf|\.comet\.config|credentials\.tfrc\.json)$/,
  /^(credentials?|secrets?)\.(json|ya?ml|toml|ini|conf|cfg|csv|txt|db|properties)$/,
  /^(access_tokens\.db|application_default_credentials\.json|kaggle\.json|auth\.json)$/,
  /^(client[-_]?secret|.*service[-_]?account).*\.json$/,
];
/** Whole paths, in lower case. */
const PLACES = [
  /(^|\/)\.docker\/config\.json$/,
  /(^|\/)\.git\/(.*\/)?config$/, // its URLs may have tokens
  /(^|\/)\.config\/(gcloud|gh|pip|op)\//,
  /(^|\/)\.(pip|config\/pip)\/pip\.conf$/,
  /(^|\/)\.(cargo|gem)\/credentials/,
  /(^|\/)\.m2\/settings(-security)?\.xml$/,
];

/** Suffixes of copies made by editors and users. */
const COPY = /(~|#|[ ._-](bak|backup|old|orig|save|copy|tmp|sw[op]|\d+))+$/;

/** Whether a file holds secrets, by its path in the project (with slashes). */
export function isCredential(name: string): boolean {
  const lower = name.toLowerCase();
  const parts = lower.split('/');
  const last = parts.at(-1)!;
  const original = last.replace(/^(\.?#)/, '').replace(COPY, '');
  const names = [last, original, original.replace(/^\./, '')]; // vim's copy of a is .a.swp
  return (
    parts.slice(0, -1).some((part) => FOLDERS.includes(part)) ||
    NAMES.some((pattern) => names.some((one) => pattern.test(one))) ||
    PLACES.some((pattern) => pattern.test(lower))
  );
}

const LOOKED_AT = 2 ** 16;
const SECRETS = [
  /^(\xef\xbb\xbf)?[ \t]*(-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----|PuTTY-User-Key-File-\d)/m,
  /-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(\\n|\\r|\s)+[A-Za-z0-9+/]{40}/, // with the start of the key, also within a string
  /\baws_secret_access_key["']?\s*[=:]\s*["']?[A-Za-z0-9+/]{30}/i,
  /^\s*(- )?client-key-data:\s*\S{20}/m, // kubectl's
  /\b(hf_[A-Za-z0-9]{30}|gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{50}|glpat-[\w-]{20}|npm_[A-Za-z0-9]{36}|xox[abprs]-\d[\w-]{20})/,
  /\bsk-(?=[\w-]*\d)(?=[\w-]*[A-Z])[\w-]{40}/, // OpenAI's and Anthropic's
];
const JSON_SECRET = /"(private_key|refresh_token|client_secret|aws_secret_access_key|secretaccesskey)"\s*:\s*"[^"]/i;

/** Whether the content of a file has a private key, an access token or, in JSON, a secret. */
export function holdsSecret(name: string, content: Uint8Array): boolean {
  const text = Buffer.from(content.buffer, content.byteOffset, Math.min(content.length, LOOKED_AT)).toString('latin1');
  return SECRETS.some((pattern) => pattern.test(text)) || (/\.json$/i.test(name) && JSON_SECRET.test(text));
}

/** Files that only home folders have: a folder with one of them is not uploaded. */
export const MARKS_OF_HOME = [
  '.ssh',
  '.gnupg',
  '.aws/credentials',
  '.kube/config',
  '.config/gcloud',
  '.bash_history',
  '.zsh_history',
];
