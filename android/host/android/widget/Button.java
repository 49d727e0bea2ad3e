package android.widget;

import android.content.Context;

/** A stand-in. */
public class Button extends TextView {
  public Button(Context context) {
    super(context);
  }
}
