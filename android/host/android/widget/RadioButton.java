package android.widget;

import android.content.Context;

/** A stand-in. */
public class RadioButton extends CompoundButton {
  public RadioButton(Context context) {
    super(context);
  }
}
