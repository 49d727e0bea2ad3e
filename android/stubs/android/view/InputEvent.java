package android.view;

public abstract class InputEvent {
  InputEvent() {}
}
