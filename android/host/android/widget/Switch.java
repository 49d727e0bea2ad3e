package android.widget;

import android.content.Context;

/** A stand-in. */
public class Switch extends CompoundButton {
  public Switch(Context context) {
    super(context);
  }
}
