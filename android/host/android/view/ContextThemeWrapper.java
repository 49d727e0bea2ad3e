package android.view;

import android.content.ContextWrapper;

/** A stand-in. */
public class ContextThemeWrapper extends ContextWrapper {
  public ContextThemeWrapper() {
    super(null);
  }
}
