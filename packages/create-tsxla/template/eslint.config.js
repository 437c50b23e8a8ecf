// tsxla's rules find code that reads like torch and means something else in JavaScript: a tensor as a condition, a read
// that is not awaited.
import tsxla from 'tsxla/eslint';
import tseslint from 'typescript-eslint';

export default [
  {
    files: ['**/*.ts'],
    languageOptions: { parser: tseslint.parser, parserOptions: { projectService: true } },
  },
  tsxla.configs.recommended,
];
