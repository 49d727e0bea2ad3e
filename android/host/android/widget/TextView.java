package android.widget;

import android.content.Context;
import android.graphics.Typeface;
import android.view.View;

/** A stand-in. */
public class TextView extends View {
  public String text = "";

  public TextView(Context context) {
    super(context);
  }

  public final void setText(CharSequence text) {
    this.text = text == null ? "" : text.toString();
  }

  public void setTextColor(int color) {}

  public void setTextSize(float size) {}

  public void setTypeface(Typeface tf) {}
}
