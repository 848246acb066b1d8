-- The release before has no such trail; export it first if it is to be kept.
DROP TABLE operator_actions;
