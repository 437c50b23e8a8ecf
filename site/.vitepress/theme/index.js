import DefaultTheme from 'vitepress/theme';
import { h } from 'vue';
import Program from '../../.pages/parts/program.md';
import './style.css';

export default {
  extends: DefaultTheme,
  // The home page shows the README's program where VitePress has a picture.
  Layout: () =>
    h(DefaultTheme.Layout, null, { 'home-hero-image': () => h('div', { class: 'vp-doc program' }, [h(Program)]) }),
};
