package android.widget;

import android.content.Context;

public abstract class CompoundButton extends Button {
  public CompoundButton(Context context) {
    super(context);
    throw new RuntimeException("stub");
  }

  public void setChecked(boolean checked) {
    throw new RuntimeException("stub");
  }

  public void setOnCheckedChangeListener(OnCheckedChangeListener listener) {
    throw new RuntimeException("stub");
  }

  public interface OnCheckedChangeListener {
    void onCheckedChanged(CompoundButton buttonView, boolean isChecked);
  }
}
