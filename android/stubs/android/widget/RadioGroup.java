package android.widget;

import android.content.Context;

public class RadioGroup extends LinearLayout {
  public RadioGroup(Context context) {
    super(context);
    throw new RuntimeException("stub");
  }

  public void check(int id) {
    throw new RuntimeException("stub");
  }

  public void setOnCheckedChangeListener(OnCheckedChangeListener listener) {
    throw new RuntimeException("stub");
  }

  public interface OnCheckedChangeListener {
    void onCheckedChanged(RadioGroup group, int checkedId);
  }
}
